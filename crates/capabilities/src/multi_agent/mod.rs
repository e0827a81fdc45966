//! The capability `multi_agent`.
