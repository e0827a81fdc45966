//! The capability `learning`.
