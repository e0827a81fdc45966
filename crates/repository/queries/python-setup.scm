; The literal keywords of a call, with their strings.
(call
  function: [(identifier) @callee (attribute attribute: (identifier) @callee)]
  arguments: (argument_list
    (keyword_argument
      name: (identifier) @keyword
      value: [(string (string_content) @value) (list (string (string_content) @value))])))
