//! A project's own files: nothing in a cloned repository is used until the user trusts it.
