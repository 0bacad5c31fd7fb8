//! What is known of Redis commands: the type of their keys, where the keys stand, and what they do to a value.

/// What a command takes its key for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A string of any content.
    Text,
    /// A string that is written with `__data__`, so no number.
    Data,
    /// A string that must be a number.
    Counter,
    Hash,
    List,
    Set,
    SortedSet,
    Stream,
    HyperLogLog,
    /// Any type will do.
    Generic,
}

impl Kind {
    /// The kind of a command's keys; `None` for a command that is not known here.
    pub(super) fn of(name: &str) -> Option<Self> {
        let name = name.to_ascii_uppercase();
        Some(match name.as_str() {
            "GET" | "SET" | "SETNX" | "SETEX" | "PSETEX" | "GETSET" | "GETDEL" | "GETEX" | "MGET" | "MSET" | "MSETNX" | "APPEND"
            | "STRLEN" | "GETRANGE" | "SUBSTR" | "SETRANGE" | "LCS" | "SETBIT" | "GETBIT" | "BITCOUNT" | "BITPOS" | "BITFIELD"
            | "BITFIELD_RO" | "BITOP" => Self::Text,
            "INCR" | "DECR" | "INCRBY" | "DECRBY" | "INCRBYFLOAT" => Self::Counter,
            "LPUSH" | "RPUSH" | "LPUSHX" | "RPUSHX" | "LPOP" | "RPOP" | "LLEN" | "LRANGE" | "LINDEX" | "LSET" | "LINSERT" | "LREM"
            | "LTRIM" | "LPOS" | "LMOVE" | "RPOPLPUSH" | "LMPOP" | "BLPOP" | "BRPOP" | "BLMOVE" | "BRPOPLPUSH" | "BLMPOP" => Self::List,
            "SADD" | "SREM" | "SMEMBERS" | "SISMEMBER" | "SMISMEMBER" | "SCARD" | "SPOP" | "SRANDMEMBER" | "SMOVE" | "SINTER"
            | "SUNION" | "SDIFF" | "SINTERSTORE" | "SUNIONSTORE" | "SDIFFSTORE" | "SINTERCARD" | "SSCAN" => Self::Set,
            "DEL" | "UNLINK" | "EXISTS" | "TOUCH" | "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" | "PERSIST" | "TTL" | "PTTL"
            | "EXPIRETIME" | "PEXPIRETIME" | "TYPE" | "DUMP" | "OBJECT" | "MEMORY" | "RENAME" | "RENAMENX" | "COPY" | "MOVE" => {
                Self::Generic
            }
            "HELLO" => return None,
            name if name.starts_with('H') => Self::Hash,
            name if name.starts_with('Z') || name.starts_with("BZ") || name.starts_with("GEO") => Self::SortedSet,
            name if name.starts_with("PF") => Self::HyperLogLog,
            name if name.starts_with('X') => Self::Stream,
            _ => return None,
        })
    }

    /// Whether one key can serve both.
    pub(super) fn agrees(self, other: Self) -> bool {
        let strings = |kind| matches!(kind, Self::Text | Self::Data | Self::Counter);
        match (self, other) {
            (Self::Generic, _) | (_, Self::Generic) => true,
            (Self::Data, Self::Counter) | (Self::Counter, Self::Data) => false,
            (a, b) => a == b || strings(a) && strings(b),
        }
    }
}

/// Whether argument `at` is a key, where the first key is argument `first`. Known commands only.
pub(super) fn is_key(name: &str, at: usize, first: usize) -> bool {
    match name.to_ascii_uppercase().as_str() {
        "MGET" | "DEL" | "UNLINK" | "EXISTS" | "TOUCH" | "SINTER" | "SUNION" | "SDIFF" | "SINTERSTORE" | "SUNIONSTORE" | "SDIFFSTORE"
        | "PFCOUNT" | "PFMERGE" => at >= first,
        "MSET" | "MSETNX" => at.is_multiple_of(2),
        "RENAME" | "RENAMENX" | "COPY" | "RPOPLPUSH" | "LMOVE" | "SMOVE" | "BLMOVE" | "BRPOPLPUSH" => at == first || at == first + 1,
        _ => at == first,
    }
}

/// Whether the command touches no key and changes nothing on the server.
pub(super) fn touches_nothing(name: &str) -> bool {
    matches!(
        name.to_ascii_uppercase().as_str(),
        "PING" | "ECHO" | "TIME" | "LOLWUT" | "INFO" | "DBSIZE" | "COMMAND" | "ROLE" | "LASTSAVE" | "RANDOMKEY" | "PUBLISH" | "SPUBLISH"
    )
}

/// Whether the command leaves every value as it is.
pub(super) fn only_reads(name: &str) -> bool {
    matches!(
        name.to_ascii_uppercase().as_str(),
        "GET"
            | "MGET"
            | "STRLEN"
            | "GETRANGE"
            | "SUBSTR"
            | "LCS"
            | "GETBIT"
            | "BITCOUNT"
            | "BITPOS"
            | "BITFIELD_RO"
            | "EXISTS"
            | "TOUCH"
            | "PERSIST"
            | "TTL"
            | "PTTL"
            | "EXPIRETIME"
            | "PEXPIRETIME"
            | "TYPE"
            | "DUMP"
            | "OBJECT"
            | "MEMORY"
            | "HGET"
            | "HMGET"
            | "HGETALL"
            | "HKEYS"
            | "HVALS"
            | "HLEN"
            | "HEXISTS"
            | "HSTRLEN"
            | "HRANDFIELD"
            | "HSCAN"
    )
}

/// Whether the command removes its keys, or may once they expire, but never gives them another value.
pub(super) fn removes(name: &str) -> bool {
    matches!(name.to_ascii_uppercase().as_str(), "DEL" | "UNLINK" | "GETDEL" | "GETEX" | "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT")
}

/// Whether the command removes all keys.
pub(super) fn flushes(name: &str) -> bool {
    matches!(name.to_ascii_uppercase().as_str(), "FLUSHALL" | "FLUSHDB" | "SWAPDB")
}

/// How far behind its key a command has the whole value that it writes.
pub(super) fn value_offset(name: &str) -> Option<usize> {
    match name.to_ascii_uppercase().as_str() {
        "SET" | "SETNX" | "GETSET" | "MSET" | "MSETNX" => Some(1),
        "SETEX" | "PSETEX" => Some(2),
        _ => None,
    }
}

/// Whether the command executes others on the server.
pub(super) fn runs_scripts(name: &str) -> bool {
    matches!(name.to_ascii_uppercase().as_str(), "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" | "FCALL" | "FCALL_RO")
}

/// Whether `commandstats` counts the command by its subcommand (Redis 7).
pub(super) fn has_subcommands(name: &str) -> bool {
    matches!(
        name.to_ascii_uppercase().as_str(),
        "ACL"
            | "CLIENT"
            | "CLUSTER"
            | "COMMAND"
            | "CONFIG"
            | "FUNCTION"
            | "LATENCY"
            | "MEMORY"
            | "MODULE"
            | "OBJECT"
            | "PUBSUB"
            | "SCRIPT"
            | "SLOWLOG"
            | "XGROUP"
            | "XINFO"
    )
}

/// Whether the command ends its connection, or turns it from request and reply to something else.
pub(super) fn changes_connection(words: &[String]) -> bool {
    let upper = |place: usize| words.get(place).map(|word| word.to_ascii_uppercase()).unwrap_or_default();
    match upper(0).as_str() {
        "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE" | "MONITOR" | "SYNC" | "PSYNC"
        | "MULTI" | "EXEC" | "DISCARD" | "WATCH" | "UNWATCH" | "SELECT" | "AUTH" | "HELLO" | "RESET" | "QUIT" | "SHUTDOWN" | "ASKING"
        | "READONLY" | "READWRITE" => true,
        "CLIENT" => matches!(upper(1).as_str(), "REPLY" | "TRACKING" | "CACHING" | "PAUSE"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_one_key_can_serve_agree() {
        for (a, b, agrees) in [
            (Kind::Text, Kind::Counter, true),
            (Kind::Data, Kind::Counter, false),
            (Kind::Text, Kind::Data, true),
            (Kind::Hash, Kind::List, false),
            (Kind::Generic, Kind::Stream, true),
            (Kind::Set, Kind::Text, false),
        ] {
            assert_eq!((a.agrees(b), b.agrees(a)), (agrees, agrees), "{a:?} {b:?}");
        }
        assert_eq!(Kind::of("hget"), Some(Kind::Hash));
        assert_eq!(Kind::of("bzpopmin"), Some(Kind::SortedSet));
        assert_eq!(Kind::of("JSON.GET"), None);
        assert_eq!(Kind::of("PING"), None);
    }

    #[test]
    fn keys_stand_where_each_command_has_them() {
        let keys = |name, first, words| (0..words).filter(|&at| is_key(name, at, first)).collect::<Vec<_>>();
        assert_eq!(keys("mset", 0, 6), [0, 2, 4]);
        assert_eq!(keys("MGET", 0, 3), [0, 1, 2]);
        assert_eq!(keys("LMOVE", 0, 4), [0, 1]);
        assert_eq!(keys("OBJECT", 1, 2), [1]);
        assert_eq!(keys("SET", 0, 2), [0]);
    }
}
