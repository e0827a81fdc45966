//! Revocation: a removed token stops working at reload, and open sessions of its principal end.
