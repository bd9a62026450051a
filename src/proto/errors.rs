//! Every error text of the wire, prefix included, in one place; as Redis 7.0 words them.

pub const SYNTAX: &str = "ERR syntax error";
pub const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub const NO_SUCH_KEY: &str = "ERR no such key";
pub const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub const OUT_OF_RANGE: &str = "ERR value is out of range";
/// A number of C's `long`, but for the least, which has no opposite.
pub const WITHIN_LONG: &str =
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
pub const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
pub const NOT_A_FLOAT: &str = "ERR value is not a valid float";
pub const NAN_OR_INFINITY: &str = "ERR increment would produce NaN or Infinity";
pub const OVERFLOW: &str = "ERR increment or decrement would overflow";
/// HRANDFIELD of a count beyond what C's `long` can negate.
pub const NOT_A_COUNT: &str =
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
/// HINCRBYFLOAT by such.
pub const VALUE_NAN_OR_INFINITY: &str = "ERR value is NaN or Infinity";
/// HINCRBY and HINCRBYFLOAT of a field that is none.
pub const HASH_NOT_AN_INTEGER: &str = "ERR hash value is not an integer";
pub const HASH_NOT_A_FLOAT: &str = "ERR hash value is not a float";
/// DECRBY of the least 64-bit number.
pub const DECREMENT_OVERFLOW: &str = "ERR decrement would overflow";
pub const OFFSET_OUT_OF_RANGE: &str = "ERR offset is out of range";
pub const INDEX_OUT_OF_RANGE: &str = "ERR index out of range";
pub const DB_OUT_OF_RANGE: &str = "ERR DB index is out of range";
pub const SAME_OBJECT: &str = "ERR source and destination objects are the same";
/// SWAPDB.
pub const FIRST_DB: &str = "ERR invalid first DB index";
pub const SECOND_DB: &str = "ERR invalid second DB index";
/// CLIENT TRACKING.
pub const TRACKING_REDIRECTS: &str = "ERR A client can only redirect to a single other client";
pub const TRACKING_NO_CLIENT: &str = "ERR The client ID you want redirect to does not exist";
pub const TRACKING_PREFIX_WITHOUT_BCAST: &str = "ERR PREFIX option requires BCAST mode to be enabled";
pub const TRACKING_BCAST_SWITCH: &str = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
     re-enabling it with a different mode.";
pub const TRACKING_BCAST_OPT: &str = "ERR OPTIN and OPTOUT are not compatible with BCAST";
pub const TRACKING_BOTH_OPTS: &str = "ERR You can't specify both OPTIN mode and OPTOUT mode";
pub const TRACKING_OPT_SWITCH: &str = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
     re-enabling it with a different mode.";
pub const CACHING_WITHOUT_TRACKING: &str = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
     OPTOUT mode enabled";
pub const CACHING_YES: &str = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.";
pub const CACHING_NO: &str = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.";
/// OBJECT FREQ.
pub const NO_LFU: &str = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
     between policies at runtime LRU and LFU data will take some time to adjust.";
/// SORT with BY or GET, of a client that may not read all keys.
pub const SORT_BY_DENIED: &str = "ERR BY option of SORT denied due to insufficient ACL permissions.";
pub const SORT_GET_DENIED: &str = "ERR GET option of SORT denied due to insufficient ACL permissions.";
/// OBJECT IDLETIME.
pub const NO_IDLE_TIME: &str = "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
     policies at runtime LRU and LFU data will take some time to adjust.";
/// RESTORE.
pub const BUSYKEY: &str = "BUSYKEY Target key name already exists.";
pub const BAD_PAYLOAD: &str = "ERR DUMP payload version or checksum are wrong";
pub const BAD_DATA: &str = "ERR Bad data format";
pub const INVALID_TTL: &str = "ERR Invalid TTL value, must be >= 0";
pub const INVALID_IDLETIME: &str = "ERR Invalid IDLETIME value, must be >= 0";
pub const INVALID_FREQ: &str = "ERR Invalid FREQ value, must be >= 0 and <= 255";
/// SORT of what is no number.
pub const SCORES: &str = "ERR One or more scores can't be converted into double";
pub const STRING_TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
/// A digest as an operand: IFDEQ, IFDNE.
pub const DIGEST_LENGTH: &str = "ERR must be exactly 16 hexadecimal characters";
pub const DELEX_TYPE: &str = "ERR Key should be of string type if conditions are specified";
pub const DELEX_CONDITION: &str = "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE";
/// MSETEX.
pub const NUMKEYS: &str = "ERR invalid numkeys value";
pub const NUMKEYS_PAIRS: &str = "ERR wrong number of key-value pairs";
/// SINTERCARD and other commands that are told how many keys they get.
pub const NUMKEYS_POSITIVE: &str = "ERR numkeys should be greater than 0";
pub const NUMKEYS_TOO_MANY: &str = "ERR Number of keys can't be greater than number of args";
pub const RANK_ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to \
                             start from the end of the list";
pub const COUNT_NEGATIVE: &str = "ERR COUNT can't be negative";
pub const MAXLEN_NEGATIVE: &str = "ERR MAXLEN can't be negative";
pub const LIMIT_NEGATIVE: &str = "ERR LIMIT can't be negative";
pub const LCS_TYPE: &str = "ERR The specified keys must contain string values";
pub const LCS_LEN_AND_IDX: &str = "ERR If you want both the length and indexes, please just use IDX.";
pub const LCS_TOO_LONG: &str = "ERR String too long for LCS";
pub const LCS_MEMORY: &str = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
pub const INVALID_CURSOR: &str = "ERR invalid cursor";
/// SETBIT and its kin.
pub const BIT_OFFSET: &str = "ERR bit offset is not an integer or out of range";
pub const BIT_VALUE: &str = "ERR bit is not an integer or out of range";
/// BITPOS of another bit.
pub const BIT_ARGUMENT: &str = "ERR The bit argument must be 1 or 0.";
pub const BITOP_NOT: &str = "ERR BITOP NOT must be called with a single source key.";
pub const BITFIELD_TYPE: &str =
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
pub const BITFIELD_OVERFLOW: &str = "ERR Invalid OVERFLOW type specified";
pub const BITFIELD_READ_ONLY: &str = "ERR BITFIELD_RO only supports the GET subcommand";
/// EXPIRE and its kin.
pub const EXPIRE_NX_AND_OTHERS: &str = "ERR NX and XX, GT or LT options at the same time are not compatible";
pub const EXPIRE_GT_AND_LT: &str = "ERR GT and LT options at the same time are not compatible";
/// LMPOP and ZMPOP.
pub const COUNT_POSITIVE: &str = "ERR count should be greater than 0";
/// ZADD.
pub const ZADD_NX_AND_XX: &str = "ERR XX and NX options at the same time are not compatible";
pub const ZADD_GT_LT_NX: &str = "ERR GT, LT, and/or NX options at the same time are not compatible";
pub const ZADD_INCR_PAIR: &str = "ERR INCR option supports a single increment-element pair";
pub const SCORE_NAN: &str = "ERR resulting score is not a number (NaN)";
/// Ranges of sorted sets.
pub const SCORE_RANGE: &str = "ERR min or max is not a float";
pub const LEX_RANGE: &str = "ERR min or max not valid string range item";
pub const ZRANGE_LIMIT: &str = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
pub const ZRANGE_SCORES_BY_LEX: &str = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
/// ZUNION and its kin.
pub const WEIGHT: &str = "ERR weight value is not a float";
/// ZRANDMEMBER of the least 64-bit number.
pub const RANDOM_COUNT: &str =
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
/// HEXPIRE and other commands on fields.
pub const NO_FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
pub const NUMFIELDS_POSITIVE: &str = "ERR Parameter `numFields` should be greater than 0";
pub const NUMFIELDS_NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";
pub const NUMFIELDS_INVALID: &str = "ERR invalid number of fields";
pub const NUMFIELDS_MISMATCH: &str = "ERR The `numfields` parameter must match the number of arguments";
pub const FIELD_TIME_NEGATIVE: &str = "ERR invalid expire time, must be >= 0";
pub const FIELD_TIME_MISSING: &str = "ERR missing expire time";
pub const FIELD_TIMES: &str = "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
pub const FNX_AND_FXX: &str = "ERR Only one of FXX or FNX arguments can be specified";
pub const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
/// What a user may not do.
pub const NOPERM_KEY: &str = "NOPERM this user has no permissions to access one of the keys used as arguments";
pub const NOPERM_CHANNEL: &str = "NOPERM this user has no permissions to access one of the channels used as arguments";
pub const NO_ACL_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL \
     SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the \
     Redis configuration.";
pub const ACL_SAVE: &str =
    "ERR There was an error trying to save the ACLs. Please check the server logs for more information";
pub const USER_NAME: &str = "ERR Usernames can't contain spaces or null characters";
pub const DEFAULT_USER: &str = "ERR The 'default' user cannot be removed";
pub const DEBUG_NOT_ALLOWED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it \
     from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.";
pub const DEBUG_MEMORY_VALUE: &str = "ERR argument must be a memory value bigger than 1 and smaller than 4gb";
pub const DEBUG_NOT_A_LISTPACK: &str = "ERR Not a listpack encoded object.";
pub const DEBUG_PROTOCOL: &str = "ERR Wrong protocol type name. Please use one of the following: string|integer|double|null|array|set|map|attrib|push|verbatim|true|false";
pub const SLOWLOG_COUNT: &str = "ERR count should be greater than or equal to -1";
pub const GENPASS_BITS: &str =
    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096";
pub const NOAUTH: &str = "NOAUTH Authentication required.";
/// HELLO without AUTH on a connection that needs one.
pub const NOAUTH_HELLO: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> \
     <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
pub const WRONGPASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
pub const AUTH_WITHOUT_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure \
     your configuration is correct?";
pub const NOPROTO: &str = "NOPROTO unsupported protocol version";
pub const PROTOCOL_VERSION: &str = "ERR Protocol version is not an integer or out of range";
pub const CLIENT_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";
pub const INVALID_CLIENT_ID: &str = "ERR Invalid client ID";
/// A number that does not fit C's `int`.
pub const NOT_AN_INT: &str = "ERR value is out of range, value must between -2147483648 and 2147483647";
pub const NO_SHUTDOWN: &str = "ERR No shutdown in progress.";
pub const SHUTDOWN_FAILED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";
pub const BGSAVE_IN_PROGRESS: &str = "ERR Background save already in progress";
pub const NO_BGSAVE: &str = "ERR Background saving is currently not in progress or scheduled";
/// SAVE, without more of a reason: the log has it.
pub const SAVE_FAILED: &str = "ERR";
pub const DEBUG_RELOAD_OPTIONS: &str = "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
pub const RELOAD_FAILED: &str = "ERR Error trying to load the RDB dump, check server logs";
pub const MISCONF_RDB: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. \
    Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB \
    snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";
pub const MISCONF_AOF: &str = "MISCONF Errors writing to the AOF file. Please check the logs.";
pub const AOF_IS_OFF: &str = "ERR The append-only file is off: CONFIG SET appendonly yes turns it on";
pub const REWRITE_IN_PROGRESS: &str = "ERR Background append only file rewriting already in progress";
pub const BGSAVE_DURING_REWRITE: &str = "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in \
    order to schedule a BGSAVE whenever possible.";
pub const AOF_NOT_TURNED_ON: &str = "ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check \
    server logs.";
pub const WAITAOF_WITHOUT_AOF: &str = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
pub const NO_SUCH_CLIENT: &str = "ERR No such client";
/// CLIENT KILL.
pub const CLIENT_ID_POSITIVE: &str = "ERR client-id should be greater than 0";
pub const MAXAGE_NOT_AN_INTEGER: &str = "ERR maxage is not an integer or out of range";
pub const MAXAGE_POSITIVE: &str = "ERR maxage should be greater than 0";
pub const PAUSE_MODE: &str = "ERR CLIENT PAUSE mode must be WRITE or ALL";
pub const UNBLOCK_REASON: &str = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
pub const NO_CONFIG_FILE: &str = "ERR The server is running without a config file";
pub const MAX_CLIENTS: &str = "ERR max number of clients reached";
/// Said to a client that comes from another machine while anybody could come; clients know it by its prefix.
pub const PROTECTED_MODE: &str = "DENIED Dolmen is running in protected mode because protected mode is enabled and no password is set \
     for the default user. In this mode connections are only accepted from the loopback interface. To serve other machines, set a \
     password with '--requirepass <password>', or, if nobody unwanted can reach the server, start it with '--protected-mode no'";
pub const LOADING: &str = "LOADING Redis is loading the dataset in memory";
pub const EXECABORT: &str = "EXECABORT Transaction discarded because of previous errors.";
pub const NOT_IN_MULTI: &str = "ERR Command not allowed inside a transaction";
pub const EXEC_WITHOUT_MULTI: &str = "ERR EXEC without MULTI";
pub const DISCARD_WITHOUT_MULTI: &str = "ERR DISCARD without MULTI";
pub const NESTED_MULTI: &str = "ERR MULTI calls can not be nested";
pub const WATCH_INSIDE_MULTI: &str = "ERR WATCH inside MULTI is not allowed";
pub const TIMEOUT_NOT_A_FLOAT: &str = "ERR timeout is not a float or out of range";
pub const TIMEOUT_NOT_AN_INTEGER: &str = "ERR timeout is not an integer or out of range";
/// A client in RESP2 that has subscriptions may do little else.
#[must_use]
pub fn not_while_subscribed(command: &str) -> String {
    format!(
        "ERR Can't execute '{command}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
    )
}

/// What a blocked client gets by CLIENT UNBLOCK with ERROR.
pub const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
pub const TIMEOUT_OUT_OF_RANGE: &str = "ERR timeout is out of range";
pub const TIMEOUT_NEGATIVE: &str = "ERR timeout is negative";

/// Bytes of a command's name, and of its arguments together, that an error quotes.
const PREVIEW_BYTES: usize = 128;

/// ZUNION and its kin without keys. `command` in lower case.
pub fn too_few_keys(command: &str) -> String {
    format!("ERR at least 1 input key is needed for '{command}' command")
}

/// `command` in lower case, as in the command table.
pub fn invalid_expire_time(command: &str) -> String {
    format!("ERR invalid expire time in '{command}' command")
}

/// `command` in lower case; a subcommand as `container|sub`.
pub fn wrong_number_of_arguments(command: &str) -> String {
    format!("ERR wrong number of arguments for '{command}' command")
}

/// `args` begins with the command's name as the client sent it.
pub fn unknown_command(args: &[&[u8]]) -> Vec<u8> {
    let (name, rest) = args.split_first().map_or((&b""[..], &[][..]), |(name, rest)| (*name, rest));
    let mut preview = Vec::new();
    for arg in rest {
        // Quotes and spaces count; the last argument may go beyond by its own.
        if preview.len() >= PREVIEW_BYTES {
            break;
        }
        let room = PREVIEW_BYTES - preview.len();
        preview.push(b'\'');
        preview.extend_from_slice(head(arg, room));
        preview.extend_from_slice(b"' ");
    }
    [b"ERR unknown command '", head(name, PREVIEW_BYTES), b"', with args beginning with: ", &preview].concat()
}

/// EXEC that is itself refused, for the reason `why`.
/// BGSAVE.
pub fn save_failed(why: &std::io::Error) -> String {
    format!("ERR Can't BGSAVE: {why}")
}

pub fn exec_refused(why: &[u8]) -> Vec<u8> {
    [b"EXECABORT Transaction discarded because of: ", why.strip_prefix(b"ERR ").unwrap_or(why)].concat()
}

/// `container` in any case, `sub` as the client sent it.
pub fn unknown_subcommand(container: &str, sub: &[u8]) -> Vec<u8> {
    let help = container.to_ascii_uppercase();
    [b"ERR unknown subcommand '", head(sub, PREVIEW_BYTES), b"'. Try ", help.as_bytes(), b" HELP."].concat()
}

/// A subcommand that is not a row of its own, or has the wrong number of arguments.
pub fn subcommand_syntax(container: &str, sub: &[u8]) -> Vec<u8> {
    let help = container.to_ascii_uppercase();
    let before = b"ERR unknown subcommand or wrong number of arguments for '";
    [before, head(sub, PREVIEW_BYTES), b"'. Try ", help.as_bytes(), b" HELP."].concat()
}

/// HELLO with an option that it does not know, or that lacks its argument.
pub fn hello_option(option: &[u8]) -> Vec<u8> {
    [b"ERR Syntax error in HELLO option '", head(option, option.len()), b"'"].concat()
}

/// EXPIRE and its kin.
pub fn unsupported_option(option: &[u8]) -> Vec<u8> {
    [b"ERR Unsupported option ", head(option, option.len())].concat()
}

/// HSETEX.
pub fn unknown_argument(argument: &[u8]) -> Vec<u8> {
    [b"ERR unknown argument: ", head(argument, argument.len())].concat()
}

/// BITOP DIFF, DIFF1 or ANDOR of a single source.
pub fn bitop_sources(operation: &[u8]) -> Vec<u8> {
    [b"ERR BITOP ", &*operation.to_ascii_uppercase(), b" must be called with at least two source keys."].concat()
}

/// CLIENT SETINFO with a text that CLIENT LIST could not show; `option` in lower case.
pub fn client_label(option: &[u8]) -> Vec<u8> {
    [b"ERR ", option, b" cannot contain spaces, newlines or special characters."].concat()
}

/// CLIENT SETINFO of something else.
pub fn unrecognized_option(option: &[u8]) -> Vec<u8> {
    [b"ERR Unrecognized option '", head(option, option.len()), b"'"].concat()
}

/// CLIENT LIST TYPE of something else.
pub fn unknown_client_type(name: &[u8]) -> Vec<u8> {
    [b"ERR Unknown client type '", head(name, name.len()), b"'"].concat()
}

/// CONFIG SET maxclients beyond what the limit of open files leaves; `room`: what would go.
pub fn max_clients_refused(room: u32) -> Vec<u8> {
    format!(
        "ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to handle the specified \
         number of clients, try with {room}"
    )
    .into_bytes()
}

/// CONFIG SET dir to where the server cannot go.
pub fn dir_refused(error: &std::io::Error) -> Vec<u8> {
    format!("ERR CONFIG SET failed (possibly related to argument 'dir') - {error}").into_bytes()
}

/// CONFIG SET oom-score-adj to what the kernel refuses.
pub const OOM_SCORE_REFUSED: &str = "ERR CONFIG SET failed (possibly related to argument 'oom-score-adj') - Failed to apply new oom_score_adj \
                                     configuration, check server logs.";

/// CONFIG REWRITE.
pub fn rewrite_failed(error: &std::io::Error) -> Vec<u8> {
    format!("ERR Rewriting config file: {error}").into_bytes()
}

/// A command that a user may not run.
pub fn noperm_command(command: &str) -> String {
    format!("NOPERM this user has no permissions to run the '{command}' command")
}

/// The same, found by EXEC.
pub fn noperm_in_exec(reason: &str) -> String {
    format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer \
         allowed for the following reason: {reason}"
    )
}

/// ACL SETUSER with `rule`, and why it is none.
pub fn acl_rule(rule: &[u8], why: &str) -> Vec<u8> {
    [b"ERR Error in ACL SETUSER modifier '", rule, b"': ", why.as_bytes()].concat()
}

pub fn acl_parenthesis(word: &[u8]) -> Vec<u8> {
    [b"ERR Unmatched parenthesis in acl selector starting at '", word, b"'."].concat()
}

pub fn acl_category(name: &[u8]) -> Vec<u8> {
    [b"ERR Unknown category '", head(name, PREVIEW_BYTES), b"'"].concat()
}

/// ACL DRYRUN.
pub fn acl_user_not_found(name: &[u8]) -> Vec<u8> {
    [b"ERR User '", head(name, name.len()), b"' not found"].concat()
}

/// What ACL DRYRUN answers (it is no error): to `what` (run, access) the thing of this name and kind.
pub fn acl_would_deny(what: &str, name: &[u8], kind: &str) -> Vec<u8> {
    let before = format!("This user has no permissions to {what} the '");
    [before.as_bytes(), head(name, name.len()), b"' ", kind.as_bytes()].concat()
}

pub fn acl_command_not_found(name: &[u8]) -> Vec<u8> {
    [b"ERR Command '", head(name, name.len()), b"' not found"].concat()
}

/// LATENCY GRAPH of what has not happened.
pub fn latency_no_samples(event: &[u8]) -> Vec<u8> {
    [b"ERR No samples available for event '", head(event, event.len()), b"'"].concat()
}

/// CLIENT KILL USER of somebody else.
pub fn no_such_user(name: &[u8]) -> Vec<u8> {
    [b"ERR No such user '", head(name, name.len()), b"'"].concat()
}

pub(super) fn protocol(what: &[u8]) -> Vec<u8> {
    [b"ERR Protocol error: ", what].concat()
}

pub(super) fn expected_dollar(got: u8) -> Vec<u8> {
    protocol(&[b"expected '$', got '", &[got][..], b"'"].concat())
}

/// What C would print of `text`: up to a NUL byte, at most `max_bytes`.
fn head(text: &[u8], max_bytes: usize) -> &[u8] {
    let text = &text[..text.len().min(max_bytes)];
    memchr::memchr(0, text).map_or(text, |nul| &text[..nul])
}

/// CLIENT TRACKING with `what` of the prefixes.
#[must_use]
pub fn prefix_overlaps(prefix: &[u8], what: &str, other: &[u8]) -> Vec<u8> {
    let end = b"'. Prefixes for a single client must not overlap.";
    let middle = format!("' overlaps with {what} prefix '");
    [b"ERR Prefix '".as_slice(), prefix, middle.as_bytes(), other, end].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(args: &[&[u8]]) -> String {
        String::from_utf8(unknown_command(args)).unwrap()
    }

    /// As redis-server 7.0.15 answers.
    #[test]
    fn previews_of_unknown_commands() {
        assert_eq!(unknown(&[b"foo"]), "ERR unknown command 'foo', with args beginning with: ");
        assert_eq!(unknown(&[b"Foo", b"a", b""]), "ERR unknown command 'Foo', with args beginning with: 'a' '' ");
        assert_eq!(unknown(&[b"f\0oo", b"c\0d"]), "ERR unknown command 'f', with args beginning with: 'c' ");
        let long = [b'y'; 200];
        for (first, rest) in [(200, ""), (128, ""), (125, ""), (124, "'z' "), (100, "'zzzzzzzzzzzzzzzzzzzzzzzzz' ")] {
            let second: &[u8] = if first == 100 { &[b'z'; 100] } else { b"z" };
            let text = unknown(&[&[b'x'; 130], &long[..first], second, b"w"]);
            let (x, y) = ("x".repeat(128), "y".repeat(first.min(128)));
            assert_eq!(text, format!("ERR unknown command '{x}', with args beginning with: '{y}' {rest}"), "{first}");
        }
    }

    #[test]
    fn formatted_texts() {
        assert_eq!(unknown_subcommand("config", b"foo"), b"ERR unknown subcommand 'foo'. Try CONFIG HELP.");
        assert_eq!(wrong_number_of_arguments("config|get"), "ERR wrong number of arguments for 'config|get' command");
        assert_eq!(invalid_expire_time("set"), "ERR invalid expire time in 'set' command");
        assert_eq!(hello_option(b"foo"), b"ERR Syntax error in HELLO option 'foo'");
        assert_eq!(unsupported_option(b"foo"), b"ERR Unsupported option foo");
        assert_eq!(expected_dollar(b'*'), b"ERR Protocol error: expected '$', got '*'");
        assert!(!NOAUTH_HELLO.contains("  ") && !AUTH_WITHOUT_PASSWORD.contains("  "));
    }
}
