//! The capability `memory`.
