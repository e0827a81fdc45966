//! A2E over HTTP without a token: no capability that runs code, a model or reads outside its roots is granted.
