#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/run-python" barnabas.cli.apache.log_dirs "$@"
