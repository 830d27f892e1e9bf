package io.seqd.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;

/** Three nodes with TLS and tokens, started by clients/cluster.py. */
final class TestCluster implements AutoCloseable {
    /** Short, so that a test can wait for its end, and long enough for an election on a busy machine. */
    static final long WINDOW_MS = 6000;

    final Answer info;
    private final Process process;
    private final BufferedReader out;
    private final Writer in;

    TestCluster(String seqd) throws IOException {
        Path script = Path.of("").toAbsolutePath();
        while (!Files.exists(script.resolve("clients/cluster.py"))) {
            script = script.getParent();
        }
        process = new ProcessBuilder(script.resolve("clients/cluster.py").toString(), seqd, WINDOW_MS + "ms")
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        out = process.inputReader();
        in = process.outputWriter();
        info = read();
    }

    private Answer read() throws IOException {
        String line = out.readLine();
        if (line == null) {
            throw new IOException("the cluster has ended");
        }
        return Answer.of(Json.read(line));
    }

    /** Sends a command such as {@code kill n1}. */
    synchronized Answer command(String words) {
        try {
            in.write(words + "\n");
            in.flush();
            return read();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    String leader() {
        return command("leader").text("leader");
    }

    Client client() {
        return client(info.text("endpoints"), null);
    }

    Client client(String endpoints, Duration timeout) {
        return Client.builder(endpoints).token(info.text("token")).ca(Path.of(info.text("ca"))).timeout(timeout)
                .certificate(Path.of(info.text("cert")), Path.of(info.text("key"))).build();
    }

    @Override
    public void close() throws IOException {
        in.close();
        try {
            process.waitFor();
        } catch (InterruptedException interrupted) {
            process.destroy();
        }
    }
}
