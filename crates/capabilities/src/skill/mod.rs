//! The capability `skill`.
