//! The cursor of a paged list: opaque to clients, an offset for us.

use gladhand_core::wire::RawValue;
use gladhand_core::wire::{json, rpc};

use super::errors;

const PREFIX: &str = "from-";

/// The cursor of the page that begins at `offset`.
pub(super) fn at(offset: usize) -> String {
    format!("{PREFIX}{offset}")
}

/// The offset of a cursor that we created.
pub(super) fn read(raw: &RawValue) -> Option<usize> {
    let text = json::string(raw)?;
    let digits = text.strip_prefix(PREFIX)?;
    // Accept only our own spelling: no sign, no leading zero, never the first page.
    let offset = digits.parse().ok().filter(|offset| *offset > 0)?;
    (at(offset) == text).then_some(offset)
}

/// The error for a cursor that is unknown or outdated.
pub(super) fn bad() -> rpc::Error<'static> {
    errors::invalid_params("`cursor` is not one that this server gave out, or the list has changed since")
}

#[cfg(test)]
mod tests {
    use gladhand_core::wire::json::to_raw;

    use super::*;

    #[test]
    fn only_cursors_of_this_program_are_read() {
        for offset in [1, 100, usize::MAX] {
            assert_eq!(read(&to_raw(&at(offset))), Some(offset));
        }
        for bad in ["", "from-", "from-0", "from-01", "from-+1", "from--1", "from-99999999999999999999", "1"] {
            assert_eq!(read(&to_raw(bad)), None, "{bad}");
        }
        assert_eq!(read(&to_raw(&1)), None);
    }
}
