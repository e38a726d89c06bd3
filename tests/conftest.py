"""Makes `tests` importable as a package from every test, so that `tests.peers.apache` can be used."""
