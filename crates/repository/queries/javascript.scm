; What a JavaScript or TypeScript file imports and calls. `default` is the name of a default export.
(import_statement (import_clause (identifier) @default) source: (string (string_fragment) @module)) @import
(import_statement
  (import_clause (namespace_import (identifier) @local))
  source: (string (string_fragment) @module)) @import
(import_statement
  (import_clause (named_imports (import_specifier name: (identifier) @member !alias)))
  source: (string (string_fragment) @module)) @import
(import_statement
  (import_clause (named_imports (import_specifier name: (identifier) @member alias: (identifier) @local)))
  source: (string (string_fragment) @module)) @import
(import_statement source: (string (string_fragment) @module)) @import
(export_statement source: (string (string_fragment) @module)) @import
(call_expression
  function: (import)
  arguments: (arguments . (string (string_fragment) @module))) @import
(variable_declarator
  name: (identifier) @local
  value: (call_expression
    function: (identifier) @require
    arguments: (arguments . (string (string_fragment) @module)))
  (#eq? @require "require")) @import
(variable_declarator
  name: (object_pattern (shorthand_property_identifier_pattern) @member)
  value: (call_expression
    function: (identifier) @require
    arguments: (arguments . (string (string_fragment) @module)))
  (#eq? @require "require")) @import
(variable_declarator
  name: (object_pattern (pair_pattern key: (property_identifier) @member value: (identifier) @local))
  value: (call_expression
    function: (identifier) @require
    arguments: (arguments . (string (string_fragment) @module)))
  (#eq? @require "require")) @import
(call_expression
  function: (identifier) @require
  arguments: (arguments . (string (string_fragment) @module))
  (#eq? @require "require")) @import
(call_expression function: [(identifier) (member_expression)] @callee) @call
(call_expression
  function: (call_expression
    function: (identifier) @require
    arguments: (arguments . (string (string_fragment) @required)))
  (#eq? @require "require")) @call
(new_expression constructor: [(identifier) (member_expression)] @callee) @call
