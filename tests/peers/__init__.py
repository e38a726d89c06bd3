"""Real peers on a real port: other projects' clients, tools and broker (`make peers`)."""
