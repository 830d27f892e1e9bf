//! The texts of lock scripts that clients send by their SHA-1 without a way back to `EVAL`.
//!
//! Such a client loads a script if its SHA-1 is unknown, and then names the SHA-1 again. Behind a
//! balancer the two requests may reach two nodes, so every node knows these scripts from its start.
//! Each blank belongs to the SHA-1.

pub(super) const TEXTS: &[&str] = &[
    // redis-py release.
    r#"
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('del', KEYS[1])
        return 1
    "#,
    // redis-py extend.
    r#"
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        local expiration = redis.call('pttl', KEYS[1])
        if not expiration then
            expiration = 0
        end
        if expiration < 0 then
            return 0
        end

        local newttl = ARGV[2]
        if ARGV[3] == "0" then
            newttl = ARGV[2] + expiration
        end
        redis.call('pexpire', KEYS[1], newttl)
        return 1
    "#,
    // redis-py reacquire.
    r#"
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1
    "#,
    // pottery remaining.
    r#"
                if redis.call('get', KEYS[1]) == ARGV[1] then
                    local pttl = redis.call('pttl', KEYS[1])
                    return (pttl > 0) and pttl or 0
                else
                    return 0
                end
            "#,
    // pottery extend.
    r#"
                if redis.call('get', KEYS[1]) == ARGV[1] then
                    return redis.call('pexpire', KEYS[1], ARGV[2])
                else
                    return 0
                end
            "#,
    // pottery release.
    r#"
                if redis.call('get', KEYS[1]) == ARGV[1] then
                    return redis.call('del', KEYS[1])
                else
                    return 0
                end
            "#,
];
