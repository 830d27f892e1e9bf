"""The clients: the language of each program, the program, and the port that it needs."""

CLIENTS = {
    "redis-cli": ("python", ["redis_cli.py"], "redis"),
    "redis-py": ("python", ["redis_py.py"], "redis"),
    "redis-py-lock": ("python", ["redis_py_lock.py"], "redis"),
    "redlock-py": ("python", ["redlock_py.py"], "redis"),
    "pottery": ("python", ["pottery_redlock.py"], "redis"),
    "ioredis": ("node", ["ioredis.js"], "redis"),
    "node-redis": ("node", ["node_redis.js"], "redis"),
    "node-redlock-4": ("node", ["redlock4.js"], "redis"),
    "node-redlock-5": ("node", ["redlock5.js"], "redis"),
    "go-redis": ("go", ["goredis"], "redis"),
    "redsync": ("go", ["redsync"], "redis"),
    "redislock": ("go", ["redislock"], "redis"),
    "jedis": ("java", ["JedisClient"], "redis"),
    "lettuce": ("java", ["LettuceClient"], "redis"),
    "spring-integration": ("java", ["SpringLockRegistry"], "redis"),
    "redisson": ("java", ["RedissonLock"], "redis"),
    "pymemcache": ("python", ["pymemcache_client.py"], "memcached"),
    "katsubushi": ("python", ["katsubushi_memcached.py"], "memcached"),
    "libmemcached-tools": ("python", ["libmemcached_tools.py"], "memcached"),
    "gomemcache": ("go", ["gomemcache"], "memcached"),
    "cosid": ("java", ["CosIdClient"], "http"),
    "http-routes": ("python", ["http_routes.py"], "http"),
    "differential": ("python", ["differential.py", "{redis_server}", "{redis}"], "redis"),
    "lock-scripts": ("python", ["lock_scripts.py", "{redis_server}", "{redis}"], "redis"),
    "redisson-scripts": (
        "python",
        ["redisson_scripts.py", "{redis_server}", "{redis}"],
        "redis",
    ),
    "redis-access": ("python", ["redis_access.py", "{binary}"], "redis"),
    "contention": ("python", ["contention.py", "{binary}"], "redis"),
}

# Programs of the system, beside the tools of the language.
TOOLS = {
    "redis-cli": ["redis-cli", "redis-benchmark"],
    "libmemcached-tools": ["memccat", "memcstat", "memcping"],
    "http-routes": ["curl"],
    "differential": ["redis-server"],
    "lock-scripts": ["redis-server", "javap"],
    "redisson-scripts": ["redis-server", "javap"],
    "redis-access": ["redis-cli"],
}

# Languages whose packages a program of another language reads.
ALSO = {"lock-scripts": ["node", "go", "java"], "redisson-scripts": ["java"]}

# Programs that compare or stop servers: they have no sense against redis-server alone.
SEQD_ONLY = {"differential", "lock-scripts", "redisson-scripts", "redis-access", "contention"}

# One of each kind, within a minute and with the packages of one language, the slowest first.
SHORT = [
    "differential",
    "redis-access",
    "redis-cli",
    "redis-py",
    "redis-py-lock",
    "redlock-py",
    "pymemcache",
    "katsubushi",
    "libmemcached-tools",
    "http-routes",
]
