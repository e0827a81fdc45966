//! Pins: a changed tool is stopped before its first call.
