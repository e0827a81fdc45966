//! The capability `env`.
