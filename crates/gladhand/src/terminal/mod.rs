//! What a person sees on a terminal: text of peers made harmless, and lines that fit the width.

pub(crate) mod layout;
pub(crate) mod text;
