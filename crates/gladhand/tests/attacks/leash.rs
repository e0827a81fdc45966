//! The leash: children end when their leash dies or stops.
