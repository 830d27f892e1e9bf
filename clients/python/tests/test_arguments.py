"""What needs no cluster: arguments that are refused, and the texts of errors."""

import asyncio
import unittest

from tests import support  # noqa: F401, finds the library

import seqd
import seqd.aio


class Arguments(unittest.TestCase):
    def test_a_token_with_a_line_break_is_refused_without_its_text(self):
        for token in ("secret\n", " secret", "s\u00e9cret"):
            with self.assertRaises(ValueError) as refused:
                seqd.Client("n1", token=token)
            self.assertNotIn("cret", str(refused.exception))

    def test_an_unreadable_file_is_named(self):
        with self.assertRaisesRegex(ValueError, "/none.pem"):
            seqd.Client("n1", cacert="/none.pem")
        with self.assertRaisesRegex(ValueError, "/none.pem"):
            seqd.Client("https://n1", cert="/none.pem", key="/none.key")

    def test_the_text_of_an_error_has_its_hint(self):
        error = seqd.Error("not-found", "there is no sequence ordr", "did you mean order?")
        self.assertEqual(str(error), "there is no sequence ordr (not-found); hint: did you mean order?")

    def test_an_async_function_is_refused_before_its_key_begins(self):
        async def work():
            return 1

        with self.assertRaisesRegex(TypeError, "seqd.aio"):
            seqd.Client("127.0.0.1:9").once("key", work)

    def test_waits_are_bounded(self):
        async def story():
            async with seqd.aio.Client("127.0.0.1:9") as client:
                for _ in range(seqd.aio.MOST_WAITS):
                    client._waits.acquire()
                with self.assertRaises(seqd.Error) as refused:
                    await client.lock("l", wait=0).acquire()
                self.assertEqual(refused.exception.code, "busy")

        asyncio.run(story())


if __name__ == "__main__":
    unittest.main()
