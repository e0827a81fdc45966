//! The capability `chains`.
