"""Settings of brokers, topics, groups and client metrics: tables, typed views, descriptions."""
