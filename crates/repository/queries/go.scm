; What a Go file imports and calls.
(import_spec !name path: (_) @module) @import
(import_spec name: (_) @local path: (_) @module) @import
(call_expression function: (selector_expression) @callee) @call
