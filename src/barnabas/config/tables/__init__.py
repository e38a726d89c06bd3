"""The tables of settings, one file a concern.

Names, types, defaults, importance and ranges are those of Apache Kafka 4.3; the sentences are our
own. A row that does nothing here yet says so (`NOT_YET`), and a server started with it warns.
"""
