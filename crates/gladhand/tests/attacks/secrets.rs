//! Secrets never reach messages, logs or listings.
