"""Barnabas and Apache Kafka under the same load, side by side: `make bench`. See README.md."""
