//! leeway-policies
