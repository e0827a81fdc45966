//! Authorization over HTTP: as a resource server, and as a client.
