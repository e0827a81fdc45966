//! The five revisions, and what each of them has.
//!
//! Nothing outside this file compares dates: whoever wants to know something of a revision asks
//! for the property by name.

/// A released revision of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// The baseline.
    V2024_11_05,
    /// Batches, progress messages, the `completions` capability.
    V2025_03_26,
    /// Structured output, titles, elicitation; batches are gone.
    V2025_06_18,
    /// Icons, URL elicitation, tasks.
    V2025_11_25,
    /// No handshake: every request carries its own opening.
    V2026_07_28,
}

impl Revision {
    /// All of them, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// Those that open with `initialize`, the preferred one first.
    pub const HANDSHAKE: [Self; 4] = [Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    /// Those in which every request stands alone, the preferred one first.
    pub const STATELESS: [Self; 1] = [Self::V2026_07_28];

    /// Its name on the wire.
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

    /// Whether every request carries version and capabilities, and none follows from another.
    pub fn is_stateless(self) -> bool {
        Self::STATELESS.contains(&self)
    }

    /// Whether several messages may come as one array.
    pub fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// Whether a report of progress may say what is being done.
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

    /// Whether content may be a sound.
    pub fn has_audio(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether content may be a link to a resource.
    pub fn has_resource_links(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether a request for completion may tell the other arguments.
    pub fn has_completion_context(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether the definition of a tool says if it can be had as a task.
    pub fn has_task_support(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Whether a caller that was let go comes back for its answer.
    pub fn has_polling(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Whether a resource that is not there has an error code of its own.
    pub fn has_resource_not_found(self) -> bool {
        self.has_initialize()
    }

    /// Whether a person may be asked in several ways: by a richer form, by a page to visit.
    pub fn has_elicitation_modes(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether a request may be refused until a person has visited a page.
    pub fn has_url_elicitation_required(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Whether what is asked of a model may hold several blocks per message, and tools.
    pub fn has_content_lists(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether results say what kind of result they are, who gave them, and how long they hold.
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
        }
        assert_eq!(Revision::named("2024-10-07"), None);
    }

    #[test]
    fn properties_follow_the_table_of_differences() {
        let of = |property: fn(Revision) -> bool| -> Vec<&str> {
            Revision::ALL.into_iter().filter(|revision| property(*revision)).map(Revision::as_str).collect()
        };
        assert_eq!(of(Revision::has_batches), ["2025-03-26"]);
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
