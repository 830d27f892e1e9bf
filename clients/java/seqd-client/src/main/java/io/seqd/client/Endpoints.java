package io.seqd.client;

import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;

/** The order in which endpoints are tried, and the time of each one's last response. */
final class Endpoints {
    /** The time for which a response counts as a sign of life: short compared with how fast a hung node is noticed. */
    static final long LATELY_MS = 10_000;

    /** The longest silence of an endpoint while others are left: a call ends within 2.5 s if the first one hangs. */
    static final long SILENCE_MS = 1_500;

    private final List<Endpoint> list;
    private final LongSupplier nowMs;
    private final Long[] answered;
    private int good = -1;

    Endpoints(List<Endpoint> list, LongSupplier nowMs) {
        this.list = List.copyOf(list);
        this.nowMs = nowMs;
        this.answered = new Long[list.size()];
    }

    Endpoint at(int index) {
        return list.get(index);
    }

    int count() {
        return list.size();
    }

    /** Returns the last good endpoint, then the others as listed. */
    synchronized List<Integer> inTurn() {
        List<Integer> order = new ArrayList<>();
        if (good >= 0) {
            order.add(good);
        }
        for (int index = 0; index < list.size(); index++) {
            if (index != good) {
                order.add(index);
            }
        }
        return order;
    }

    synchronized boolean answeredLately(int index) {
        return answered[index] != null && nowMs.getAsLong() - answered[index] < LATELY_MS;
    }

    /** Records a response. It is good if the node could process the request, even if it refused it. */
    synchronized void answered(int index, boolean isGood) {
        answered[index] = nowMs.getAsLong();
        if (isGood) {
            good = index;
        } else if (good == index) {
            good = -1;
        }
    }

    synchronized void wasSilent(int index) {
        answered[index] = null;
        if (good == index) {
            good = -1;
        }
    }

    /** Returns how long an endpoint may be silent: its share of the time, limited while others are left. */
    static long silence(long shareMs, int left) {
        return left > 1 ? Math.min(shareMs, SILENCE_MS) : shareMs;
    }
}
