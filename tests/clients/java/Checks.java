import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;

/** Named checks of a client program, as in {@code python/checks.py}. */
final class Checks {
    static final String REDIS = env("REDIS", "127.0.0.1:6379");
    static final List<String> NODES = List.of(env("REDIS_ALL", REDIS).split(","));
    static final String HTTP = env("HTTP", "http://127.0.0.1:7400");
    static final boolean SEQD = env("TARGET", "seqd").equals("seqd");
    static final String RUN = env("RUN", "r" + ProcessHandle.current().pid());

    private static final AtomicInteger failures = new AtomicInteger();

    /** A critical section, which runs the work exactly once while it holds the lock. */
    interface Section {
        void run(int contender, Runnable work) throws Exception;
    }

    /** The checks of a client. */
    interface Program {
        void run() throws Exception;
    }

    static String env(String key, String otherwise) {
        return Objects.requireNonNullElse(System.getenv(key), otherwise);
    }

    static String host(String address) {
        return address.substring(0, address.lastIndexOf(':'));
    }

    static int port(String address) {
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    static void check(String name, boolean passed, Object value) {
        if (!passed) {
            failures.incrementAndGet();
        }
        String text = String.valueOf(value).replaceAll("\\s+", " ");
        text = text.substring(0, Math.min(text.length(), 200));
        System.out.println((passed ? "ok " : "FAILED ") + name + ": " + text);
    }

    static void equal(String name, Object got, Object expected) {
        boolean passed = Objects.equals(got, expected);
        check(name, passed, passed ? got : got + ", expected " + expected);
    }

    /** Checks that the call throws, with the text in the message of the exception or of a cause. */
    static void fails(String name, Callable<?> call, String text) {
        try {
            check(name, false, "returned " + call.call());
        } catch (Exception error) {
            String message = error.toString();
            for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
                message += ": " + cause.getMessage();
            }
            check(name, message.contains(text), message);
        }
    }

    static boolean until(Callable<Boolean> condition) throws Exception {
        for (long end = System.nanoTime() + 10_000_000_000L;
                System.nanoTime() < end;
                Thread.sleep(20)) {
            if (condition.call()) {
                return true;
            }
        }
        return false;
    }

    /** Runs the section in several threads and checks that the work never overlaps itself. */
    static void contend(String name, Section section) throws Exception {
        final int contenders = 6;
        final int turns = 4;
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger overlaps = new AtomicInteger();
        AtomicInteger done = new AtomicInteger();
        ConcurrentLinkedQueue<String> errors = new ConcurrentLinkedQueue<>();
        Runnable work =
                () -> {
                    if (inside.incrementAndGet() > 1) {
                        overlaps.incrementAndGet();
                    }
                    try {
                        Thread.sleep(10);
                    } catch (InterruptedException error) {
                        Thread.currentThread().interrupt();
                    }
                    done.incrementAndGet();
                    inside.decrementAndGet();
                };
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < contenders; i++) {
            final int contender = i;
            threads.add(
                    new Thread(
                            () -> {
                                try {
                                    for (int turn = 0; turn < turns; turn++) {
                                        section.run(contender, work);
                                    }
                                } catch (Exception error) {
                                    errors.add(error.toString());
                                }
                            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        boolean passed =
                done.get() == contenders * turns && overlaps.get() == 0 && errors.isEmpty();
        String turnsDone =
                done + " of " + contenders * turns + " turns, " + overlaps + " overlaps ";
        check(name, passed, contenders + " threads, " + turnsDone + errors);
    }

    /** Calls every example of {@code differences.tsv} on a counter and an unused name. */
    static void differences(
            java.util.function.Function<String[], Object> call, String counter, String unused)
            throws Exception {
        List<String> lines = Files.readAllLines(Path.of("../differences.tsv"));
        for (String line : lines.subList(1, lines.size())) {
            String[] row = line.split("\t");
            if (row[0].equals("-")) {
                continue;
            }
            String[] words =
                    row[0].replace("COUNTER", counter).replace("UNUSED", unused).split(" ");
            String reply;
            try {
                reply = String.valueOf(call.apply(words));
            } catch (RuntimeException error) {
                reply = "-" + error.getMessage();
            }
            check("differs: " + String.join(" ", words), reply.matches(row[3]), reply);
        }
    }

    static String[] rest(String[] words) {
        return Arrays.copyOfRange(words, 1, words.length);
    }

    /** Runs a program and ends the process, also if threads of a client are left. */
    static void program(Program program) {
        try {
            program.run();
        } catch (Exception error) {
            check("the program", false, error);
            error.printStackTrace(System.out);
        }
        System.exit(failures.get() == 0 ? 0 : 1);
    }

    private Checks() {}
}
