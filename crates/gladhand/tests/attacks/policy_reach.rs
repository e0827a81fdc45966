//! Policy covers everything that a principal can reach, not only direct tool calls.
