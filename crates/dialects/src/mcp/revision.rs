//! The five revisions and their properties.
//!
//! No other file compares revision dates: other code asks for a property by name.

/// A released revision of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// The baseline.
    V2024_11_05,
    /// Batches, progress messages, the `completions` capability.
    V2025_03_26,
    /// Structured output, titles, elicitation; no more batches.
    V2025_06_18,
    /// Icons, URL elicitation, tasks.
    V2025_11_25,
    /// No handshake: every request carries its own opening.
    V2026_07_28,
}

impl Revision {
    /// All revisions, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The revisions that open with `initialize`, preferred first.
    pub const HANDSHAKE: [Self; 4] = [Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    /// The revisions in which every request is independent, preferred first.
    pub const STATELESS: [Self; 1] = [Self::V2026_07_28];

    /// The revision whose sessions can list their tasks.
    pub const WITH_TASK_LIST: Self = Self::V2025_11_25;

    /// The names of all revisions, preferred first: those with a handshake, then the stateless ones.
    pub const NAMES: [&'static str; 5] = {
        let mut names = [""; 5];
        let mut at = 0;
        while at < names.len() {
            let stateless = at.wrapping_sub(Self::HANDSHAKE.len());
            names[at] =
                if at < Self::HANDSHAKE.len() { Self::HANDSHAKE[at] } else { Self::STATELESS[stateless] }.as_str();
            at += 1;
        }
        names
    };

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// Whether a session opens with `initialize`.
    pub fn has_initialize(self) -> bool {
        !self.is_stateless()
    }

    /// Whether every request carries version and capabilities, independent of other requests.
    pub fn is_stateless(self) -> bool {
        Self::STATELESS.contains(&self)
    }

    /// Whether several messages may be sent as one array.
    pub fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// Whether a progress notification may contain a message.
    pub fn has_progress_message(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether tools have a `title`, and results and tools a structured form.
    pub fn has_structured_output(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether structured output may be any JSON rather than an object.
    pub fn has_any_structured_output(self) -> bool {
        self.is_stateless()
    }

    /// Whether content may be audio.
    pub fn has_audio(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether content may be a link to a resource.
    pub fn has_resource_links(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether a completion request may contain the other arguments.
    pub fn has_completion_context(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether the definition of a tool contains its task support.
    pub fn has_task_support(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Whether a caller can fetch its answer later, after its exchange was closed.
    pub fn has_polling(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Whether an unknown resource has an error code of its own.
    pub fn has_resource_not_found(self) -> bool {
        self.has_initialize()
    }

    /// Whether elicitation has several modes: richer forms, pages to visit.
    pub fn has_elicitation_modes(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether a request may be refused until the user has visited a page.
    pub fn has_url_elicitation_required(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Whether a message of a sampling request may contain several blocks, and tools.
    pub fn has_content_lists(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether an HTTP request after the opening names the revision in a header.
    pub fn has_version_header(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether results contain their type, their server and their lifetime.
    pub fn has_result_types(self) -> bool {
        self.is_stateless()
    }
}

/// The names of revisions, in the order given.
pub(super) fn names<const N: usize>(revisions: [Revision; N]) -> [&'static str; N] {
    revisions.map(Revision::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_revision_has_a_name_and_exactly_one_way_to_open() {
        for revision in Revision::ALL {
            assert_eq!(Revision::named(revision.as_str()), Some(revision));
            assert_ne!(revision.has_initialize(), revision.is_stateless());
            assert_eq!(Revision::HANDSHAKE.contains(&revision), revision.has_initialize());
            assert!(Revision::NAMES.contains(&revision.as_str()));
        }
        assert_eq!(Revision::named("2024-10-07"), None);
    }

    #[test]
    fn properties_follow_the_table_of_differences() {
        let of = |property: fn(Revision) -> bool| -> Vec<&str> {
            Revision::ALL.into_iter().filter(|revision| property(*revision)).map(Revision::as_str).collect()
        };
        assert_eq!(of(Revision::has_batches), ["2025-03-26"]);
        assert_eq!(of(Revision::has_version_header), ["2025-06-18", "2025-11-25", "2026-07-28"]);
        assert_eq!(of(Revision::has_progress_message), ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]);
        assert_eq!(of(Revision::has_structured_output), ["2025-06-18", "2025-11-25", "2026-07-28"]);
        assert_eq!(of(Revision::has_any_structured_output), ["2026-07-28"]);
        assert_eq!(of(Revision::has_elicitation_modes), ["2025-11-25", "2026-07-28"]);
        assert_eq!(of(Revision::has_url_elicitation_required), ["2025-11-25"]);
        assert_eq!(of(Revision::has_content_lists), ["2025-11-25", "2026-07-28"]);
        assert_eq!(of(Revision::has_result_types), ["2026-07-28"]);
        assert_eq!(of(Revision::has_audio), ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]);
        assert_eq!(of(Revision::has_resource_links), ["2025-06-18", "2025-11-25", "2026-07-28"]);
        assert_eq!(of(Revision::has_completion_context), ["2025-06-18", "2025-11-25", "2026-07-28"]);
        assert_eq!(of(Revision::has_task_support), ["2025-11-25"]);
        assert_eq!(of(Revision::has_polling), ["2025-11-25"]);
        assert_eq!(of(Revision::has_resource_not_found), ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]);
    }
}
