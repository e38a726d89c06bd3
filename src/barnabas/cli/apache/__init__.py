"""The scripts that Apache Kafka users know, over the same code as `barnabas`.

One module a script, each with a `main()` that takes Apache's flags, prints in Apache's form and exits
with Apache's codes (0 or 1). `bin/` and the console entry points call them.
"""
