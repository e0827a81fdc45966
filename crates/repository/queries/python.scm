; What a Python file imports and calls.
(import_statement name: (dotted_name) @module) @import
(import_statement name: (aliased_import name: (dotted_name) @module alias: (identifier) @local)) @import
(import_from_statement module_name: (dotted_name) @module name: (dotted_name) @member) @import
(import_from_statement
  module_name: (dotted_name) @module
  name: (aliased_import name: (dotted_name) @member alias: (identifier) @local)) @import
(import_from_statement module_name: (dotted_name) @module (wildcard_import)) @import
(import_from_statement module_name: (relative_import) @module) @import
(future_import_statement) @import
(call function: [(identifier) (attribute)] @callee) @call
