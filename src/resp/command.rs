//! A command of binary-safe arguments in one flat buffer.

use std::fmt;

use super::key_slot;

/// A Redis command: its name and its arguments, any bytes, kept in one buffer.
///
/// One allocation for the bytes and one for the boundaries, however many arguments.
///
/// ```
/// use redis_client_bench::resp::Command;
/// let command = Command::new("SET").arg("key").arg(b"\x00\xff");
/// assert_eq!(command.name(), "SET");
/// assert_eq!(command.args().count(), 2);
/// assert_eq!(command.key(), Some(&b"key"[..]));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    bytes: Vec<u8>,
    /// End of each word in `bytes`, the name first.
    ends: Vec<usize>,
}

/// Commands that can hold a connection, and so may never share a batch
/// (the list radix v3 keeps, with those that Redis added since).
const BLOCKING: &[&str] = &[
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BLMOVE",
    "BLMPOP",
    "BZPOPMIN",
    "BZPOPMAX",
    "BZMPOP",
    "XREAD",
    "XREADGROUP",
    "WAIT",
    "WAITAOF",
    "SAVE",
    "MONITOR",
    "SHUTDOWN",
    "SYNC",
    "PSYNC",
];

/// Commands that change the state of their connection: transactions, pub/sub, session settings.
const STATEFUL: &[&str] = &[
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH",
    "UNWATCH",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "PSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SSUBSCRIBE",
    "SUNSUBSCRIBE",
    "CLIENT",
    "SELECT",
    "AUTH",
    "HELLO",
    "RESET",
    "QUIT",
    "ASKING",
    "READONLY",
    "READWRITE",
];

/// Commands without a key: any node of a cluster may answer.
const KEYLESS: &[&str] = &[
    "PING",
    "ECHO",
    "INFO",
    "TIME",
    "DBSIZE",
    "COMMAND",
    "CLUSTER",
    "CONFIG",
    "CLIENT",
    "DEBUG",
    "SCRIPT",
    "FUNCTION",
    "LATENCY",
    "ACL",
    "MODULE",
    "WAIT",
    "WAITAOF",
    "PUBSUB",
    "SCAN",
    "KEYS",
    "RANDOMKEY",
    "FLUSHALL",
    "FLUSHDB",
    "SWAPDB",
    "ROLE",
    "LASTSAVE",
    "SAVE",
    "BGSAVE",
    "BGREWRITEAOF",
    "SHUTDOWN",
    "SLOWLOG",
    "REPLICAOF",
    "FAILOVER",
    "MONITOR",
    "LOLWUT",
];

fn is_one_of(list: &[&str], name: &str) -> bool {
    list.iter().any(|word| word.eq_ignore_ascii_case(name))
}

impl Command {
    /// A command with no arguments yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut bytes = Vec::with_capacity(48);
        bytes.extend_from_slice(name.as_bytes());
        let mut ends = Vec::with_capacity(4);
        ends.push(bytes.len());
        Self { bytes, ends }
    }

    /// `GET key`.
    #[must_use]
    pub fn get(key: &[u8]) -> Self {
        Self::new("GET").arg(key)
    }

    /// `SET key value`.
    #[must_use]
    pub fn set(key: &[u8], value: &[u8]) -> Self {
        Self::new("SET").arg(key).arg(value)
    }

    /// `HKEYS key`.
    #[must_use]
    pub fn hkeys(key: &[u8]) -> Self {
        Self::new("HKEYS").arg(key)
    }

    /// Appends one argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<[u8]>) -> Self {
        self.push(argument.as_ref());
        self
    }

    /// Appends one argument in place.
    pub fn push(&mut self, argument: &[u8]) {
        self.bytes.extend_from_slice(argument);
        self.ends.push(self.bytes.len());
    }

    /// Drops the arguments and takes another name; the memory is kept.
    pub fn restart(&mut self, name: &str) {
        self.bytes.clear();
        self.ends.clear();
        self.push(name.as_bytes());
    }

    /// Lengthens the last word in place.
    pub fn extend_last(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if let Some(end) = self.ends.last_mut() {
            *end = self.bytes.len();
        }
    }

    /// The command's name as it was given, `""` if it is not UTF-8.
    #[must_use]
    pub fn name(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.ends[0]]).unwrap_or_default()
    }

    /// The arguments after the name, in order.
    pub fn args(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.ends.windows(2).map(|bounds| &self.bytes[bounds[0]..bounds[1]])
    }

    /// The key by which a cluster routes this command; `None` when it has none. PUBLISH, which any node takes, goes by its
    /// channel like SPUBLISH, which must: the messages of a channel keep their order, and the nodes share the work.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        let name = self.name();
        if is_one_of(KEYLESS, name) || is_one_of(STATEFUL, name) && !name.eq_ignore_ascii_case("WATCH") {
            return None;
        }
        let mut args = self.args();
        match name.to_ascii_uppercase().as_str() {
            // script numkeys key …
            "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" | "FCALL" | "FCALL_RO" => args.nth(2),
            // operation key …, numkeys key …, timeout numkeys key …
            "BITOP" | "OBJECT" | "MEMORY" | "XGROUP" | "XINFO" | "ZDIFF" | "ZINTER" | "ZUNION" | "SINTERCARD" | "ZINTERCARD" | "LMPOP"
            | "ZMPOP" | "ZRANGESTORE" => args.nth(usize::from(!name.eq_ignore_ascii_case("ZRANGESTORE"))),
            "BLMPOP" | "BZMPOP" => args.nth(2),
            "XREAD" | "XREADGROUP" => args.skip_while(|word| !word.eq_ignore_ascii_case(b"STREAMS")).nth(1),
            _ => args.next(),
        }
    }

    /// The hash slot of [`Command::key`].
    #[must_use]
    pub fn slot(&self) -> Option<u16> {
        self.key().map(key_slot)
    }

    /// Whether the command may share a write with others: false for blocking commands, transactions,
    /// pub/sub and anything else that changes its connection's state.
    #[must_use]
    pub fn is_batchable(&self) -> bool {
        let name = self.name();
        !is_one_of(BLOCKING, name) && !is_one_of(STATEFUL, name)
    }

    /// Whether the command may wait on the server and so hold up what follows it on its connection.
    #[must_use]
    pub fn is_blocking(&self) -> bool {
        is_one_of(BLOCKING, self.name())
    }

    /// Appends the command to `out` as a RESP array of bulk strings.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_header(out, self.ends.len());
        encode_bulk(out, &self.bytes[..self.ends[0]]);
        for argument in self.args() {
            encode_bulk(out, argument);
        }
    }
}

/// Appends a command of the given words to `out` without building a [`Command`].
pub fn encode_words(out: &mut Vec<u8>, words: &[&[u8]]) {
    encode_header(out, words.len());
    for word in words {
        encode_bulk(out, word);
    }
}

fn encode_header(out: &mut Vec<u8>, words: usize) {
    out.push(b'*');
    out.extend_from_slice(itoa::Buffer::new().format(words).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn encode_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 16);
    out.push(b'$');
    out.extend_from_slice(itoa::Buffer::new().format(bytes.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

impl fmt::Debug for Command {
    /// Name and number of arguments only: arguments may be large or secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command({} +{} args)", self.name(), self.ends.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_binary_arguments_with_their_lengths() {
        let mut out = Vec::new();
        Command::set(b"k\r\n", b"").encode(&mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$0\r\n\r\n");
        let mut words = Vec::new();
        encode_words(&mut words, &[b"SET", b"k\r\n", b""]);
        assert_eq!(words, out);
    }

    #[test]
    fn a_command_started_again_holds_nothing_of_the_one_before() {
        let mut command = Command::set(b"key", b"value");
        command.restart("GET");
        command.push(b"k");
        command.extend_last(b"");
        command.extend_last(b"ey");
        assert_eq!(command, Command::get(b"key"));
    }

    #[test]
    fn finds_the_key_where_each_command_keeps_it() {
        let key = |text: &str| {
            let words = text.split(' ');
            let command = words
                .fold(None, |command: Option<Command>, word| Some(command.map_or_else(|| Command::new(word), |command| command.arg(word))));
            command.and_then(|command| command.key().map(|key| String::from_utf8_lossy(key).into_owned()))
        };
        assert_eq!(key("get a").as_deref(), Some("a"));
        assert_eq!(key("EVAL body 1 k x").as_deref(), Some("k"));
        assert_eq!(key("EVAL body 0"), None);
        assert_eq!(key("OBJECT ENCODING k").as_deref(), Some("k"));
        assert_eq!(key("ZRANGESTORE to from 0 1").as_deref(), Some("to"));
        assert_eq!(key("XREAD COUNT 1 STREAMS s 0").as_deref(), Some("s"));
        assert_eq!(key("BLMPOP 0 1 list LEFT").as_deref(), Some("list"));
        assert_eq!(key("PUBLISH channel message").as_deref(), Some("channel"));
        assert_eq!(key("spublish channel message").as_deref(), Some("channel"));
        assert_eq!(key("PUBSUB NUMSUB channel"), None);
        assert_eq!(key("PING"), None);
        assert_eq!(key("INFO stats"), None);
    }

    #[test]
    fn blocking_transactions_and_pubsub_are_not_batchable() {
        for name in ["blpop", "XREAD", "multi", "EXEC", "subscribe", "WATCH"] {
            assert!(!Command::new(name).is_batchable(), "{name}");
        }
        for name in ["GET", "set", "HKEYS", "publish", "SPUBLISH"] {
            assert!(Command::new(name).is_batchable(), "{name}");
        }
    }
}
