//! The capability `toolkits`.
