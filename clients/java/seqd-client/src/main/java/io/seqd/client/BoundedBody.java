package io.seqd.client;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/** Reads a response into memory, up to a bound above the million values that a node returns at most. */
final class BoundedBody implements BodySubscriber<byte[]> {
    private static final int MAX_BYTES = 64 << 20;

    private final CompletableFuture<byte[]> whole = new CompletableFuture<>();
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private Flow.Subscription subscription;

    @Override
    public CompletionStage<byte[]> getBody() {
        return whole;
    }

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
        this.subscription = subscription;
        subscription.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(List<ByteBuffer> buffers) {
        for (ByteBuffer buffer : buffers) {
            if (bytes.size() + buffer.remaining() > MAX_BYTES) {
                subscription.cancel();
                whole.completeExceptionally(new IOException("the response is longer than " + MAX_BYTES + " bytes"));
                return;
            }
            byte[] piece = new byte[buffer.remaining()];
            buffer.get(piece);
            bytes.write(piece, 0, piece.length);
        }
    }

    @Override
    public void onError(Throwable failed) {
        whole.completeExceptionally(failed);
    }

    @Override
    public void onComplete() {
        whole.complete(bytes.toByteArray());
    }
}
