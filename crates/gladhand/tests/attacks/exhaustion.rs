//! Exhaustion: one peer cannot use up the connections, sessions or memory of the others.
