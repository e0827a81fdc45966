//! The capability `proc`.
