//! The capability `planning`.
