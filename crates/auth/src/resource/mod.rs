//! Guarding our own endpoint.
