; What a Rust file imports and calls. The tree of a `use` is taken apart by hand.
(use_declaration argument: (_) @use) @import
(call_expression function: [(scoped_identifier) (identifier)] @callee) @call
