//! What a person sees on a terminal: text of peers made harmless, and lines that fit the width.

pub(crate) mod layout;
#[cfg(unix)]
pub(crate) mod line_history;
#[cfg(unix)]
pub(crate) mod screen;
pub(crate) mod text;
