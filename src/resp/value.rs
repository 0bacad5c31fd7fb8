//! A decoded reply, the same shape whatever client delivered it.

/// A reply in RESP2 or RESP3, owned. Verification and tests look at this;
/// the timed path keeps each client's own reply type.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null of either version.
    Nil,
    /// `:` integer.
    Int(i64),
    /// `,` double (RESP3).
    Double(f64),
    /// `#` boolean (RESP3).
    Bool(bool),
    /// `+` simple string.
    Simple(String),
    /// `$` bulk string, or a verbatim string (RESP3) without its format.
    Blob(Vec<u8>),
    /// `*` array, `~` set or `>` push.
    Array(Vec<Value>),
    /// `%` map (RESP3), in the server's order.
    Map(Vec<(Value, Value)>),
    /// `(` big number (RESP3), its decimal digits.
    BigNumber(String),
    /// An error inside an aggregate: its whole text.
    Error(String),
}

impl Value {
    /// The bytes of a simple or bulk string.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Blob(bytes) => Some(bytes),
            Value::Simple(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The text of a simple or bulk string, if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The integer, also when it came as a string of digits.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            other => other.as_str()?.parse().ok(),
        }
    }

    /// A short name of the kind, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Int(_) => "integer",
            Value::Double(_) => "double",
            Value::Bool(_) => "boolean",
            Value::Simple(_) => "simple string",
            Value::Blob(_) => "bulk string",
            Value::Array(_) => "array",
            Value::Map(_) => "map",
            Value::BigNumber(_) => "big number",
            Value::Error(_) => "error",
        }
    }
}
