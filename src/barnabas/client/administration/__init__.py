"""The parts of the admin client, one file a subject; `barnabas.client.admin.Admin` joins them."""
