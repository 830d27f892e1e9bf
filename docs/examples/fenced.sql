-- Fencing tokens in PostgreSQL: a transaction of a holder that lost the lock meanwhile is refused.
--
--   BEGIN;
--   SELECT fence('nightly-report', 4711);   -- the lock and the token that its holder was given
--   UPDATE account SET ...;                 -- whatever the lock is for
--   COMMIT;
--
-- A transaction of a newer holder waits until an older one that was here before it has ended. An older
-- one that comes behind it changes nothing: all of its transaction is rolled back.

CREATE TABLE IF NOT EXISTS fence (
    lock  text PRIMARY KEY,
    token bigint NOT NULL
);

CREATE OR REPLACE FUNCTION fence(held_lock text, held_token bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fence AS latest VALUES (held_lock, held_token)
    ON CONFLICT (lock) DO UPDATE SET token = held_token WHERE latest.token <= held_token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lock % was granted again: token % is older than %',
            held_lock, held_token, (SELECT token FROM fence WHERE lock = held_lock)
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END
$$;
