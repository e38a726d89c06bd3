"""The parts of the admin client, one file a subject; `blocking.admin.Admin` joins them."""
