package seqd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// window is that of clients/cluster.py.
const window = 6 * time.Second

// cluster is three nodes with TLS and tokens, which clients/cluster.py has started.
type cluster struct {
	Endpoints, Token, CA, Cert, Key, control string
	Nodes                                    map[string]string

	t *testing.T
}

func startedCluster(t *testing.T) *cluster {
	t.Helper()
	control := os.Getenv("CONTROL")
	if control == "" {
		t.Skip("needs the cluster of clients/run")
	}
	nodes := map[string]string{}
	for _, node := range strings.Split(os.Getenv("NODES"), ",") {
		name, url, _ := strings.Cut(node, "=")
		nodes[name] = url
	}
	return &cluster{Endpoints: os.Getenv("SEQD_ENDPOINTS"), Token: os.Getenv("SEQD_TOKEN"),
		CA: os.Getenv("SEQD_CACERT"), Cert: os.Getenv("SEQD_CERT"), Key: os.Getenv("SEQD_KEY"),
		Nodes: nodes, control: control, t: t}
}

// do sends a command to the cluster, such as /kill/leader, and returns the name of the node.
func (c *cluster) do(command string) string {
	c.t.Helper()
	answer, err := http.Post(c.control+command, "", nil)
	must(c.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(c.t, err)
	if answer.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s", command, text)
	}
	return string(text)
}

func (c *cluster) client(endpoints string) *Client {
	c.t.Helper()
	client, err := New(endpoints, WithToken(c.Token), WithCA(c.CA), WithCertificate(c.Cert, c.Key))
	must(c.t, err)
	return client
}

func codeOf(err error) string {
	var found *Error
	if errors.As(err, &found) {
		return found.Code
	}
	return fmt.Sprint(err)
}

func want(t *testing.T, err error, code string) {
	t.Helper()
	if codeOf(err) != code {
		t.Fatalf("%s expected, not %v", code, err)
	}
}

func wantLost(t *testing.T, err error, reason string) {
	t.Helper()
	if want(t, err, "lock-lost"); as(err).Reason != reason {
		t.Fatalf("%s expected, not %+v", reason, err)
	}
}

// TestMain is also the process that TestCluster freezes: it prints IDs until its stdin ends.
func TestMain(m *testing.M) {
	if os.Getenv("SEQD_TEST_FROZEN") == "" {
		os.Exit(m.Run())
	}
	ctx := context.Background()
	client, err := New("", WithCA(os.Getenv("SEQD_CACERT")),
		WithCertificate(os.Getenv("SEQD_CERT"), os.Getenv("SEQD_KEY")))
	if err != nil {
		panic(err)
	}
	generator, err := NewIDGenerator(client, GeneratorOptions{Owner: "frozen"})
	if err != nil {
		panic(err)
	}
	end := make(chan struct{})
	go func() {
		_, _ = io.ReadAll(os.Stdin)
		close(end)
	}()
	for {
		ids, err := generator.IDs(ctx, 100)
		for _, id := range ids {
			fmt.Println(id)
		}
		if err != nil {
			fmt.Println(codeOf(err))
		}
		select {
		case <-end:
			_ = generator.Close(ctx)
			fmt.Println("leases", generator.Status().Leases)
			os.Exit(0)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestCluster(t *testing.T) {
	c := startedCluster(t)
	t.Run("a million IDs are distinct over a leader's death", c.million)
	t.Run("a process frozen past its window mints no duplicate", c.frozen)
	t.Run("clock steps are waited for or refused", c.steps)
	t.Run("a lock is exclusive and its loss is noticed in time", c.lock)
	t.Run("requests pass a frozen node and none is unknown", c.passing)
	t.Run("ranges are distinct and their tails returned", c.ranges)
	t.Run("work is done once and the typed calls work", c.typed)
	t.Run("work is not repeated because its result is not kept", c.notRepeated)
	t.Run("a context that ends keeps no lock and no waiter", c.contexts)
}

func (c *cluster) million(t *testing.T) {
	ctx, total, workers := context.Background(), 1_000_000, 4
	if os.Getenv("SHORT") != "" {
		total = 200_000
	}
	client := c.client(c.Endpoints)
	generator, err := NewIDGenerator(client, GeneratorOptions{Owner: "million"})
	must(t, err)
	must(t, generator.Ready(ctx))
	worker := generator.Status().Worker
	// The minting lasts for more than a window, so that it needs a renewal by the new leader.
	pause := (window + 2*time.Second) * time.Duration(workers) / time.Duration(total/1000)
	parts := make([][]int64, workers)
	var group sync.WaitGroup
	for at := range parts {
		group.Add(1)
		go func() {
			defer group.Done()
			for len(parts[at]) < total/workers {
				ids, err := generator.IDs(ctx, 1000)
				if err != nil {
					t.Error(err)
					return
				}
				parts[at] = append(parts[at], ids...)
				time.Sleep(pause)
			}
		}()
	}
	c.do("/kill/leader")
	killed := time.Now()
	group.Wait()
	all := slices.Concat(parts...)
	slices.Sort(all)
	if len(all) != total || len(slices.Compact(all)) != total {
		t.Fatalf("%d IDs, and duplicates", len(all))
	}
	if status := generator.Status(); status.Leases != 1 || !status.WindowEnds.After(killed.Add(window)) {
		t.Fatalf("%+v", status)
	}
	must(t, generator.Close(ctx))
	_, err = generator.ID(ctx)
	want(t, err, "closed")
	next, err := NewIDGenerator(client, GeneratorOptions{Owner: "million"})
	must(t, err)
	id, err := next.ID(ctx)
	must(t, err)
	if next.Status().Worker != worker || id <= slices.Max(all) {
		t.Fatalf("worker %d after %d, ID %d", next.Status().Worker, worker, id)
	}
	must(t, next.Close(ctx))
	c.do("/start")
}

func (c *cluster) frozen(t *testing.T) {
	ctx := context.Background()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), "SEQD_TEST_FROZEN=1")
	process.Stderr = os.Stderr
	in, err := process.StdinPipe()
	must(t, err)
	pipe, err := process.StdoutPipe()
	must(t, err)
	must(t, process.Start())
	defer process.Process.Kill()
	out := bufio.NewScanner(pipe)
	seen := map[string]bool{}
	add := func(id string) {
		if seen[id] {
			t.Fatalf("%s twice", id)
		}
		seen[id] = true
	}
	for range 5000 {
		out.Scan()
		add(out.Text())
	}
	must(t, process.Process.Signal(syscall.SIGSTOP))
	// The worker is free after its window, and the same owner takes it.
	time.Sleep(window + time.Second)
	other, err := NewIDGenerator(c.client(c.Endpoints), GeneratorOptions{Owner: "frozen"})
	must(t, err)
	for range 50 {
		ids, err := other.IDs(ctx, 1000)
		must(t, err)
		for _, id := range ids {
			add(fmt.Sprint(id))
		}
	}
	must(t, process.Process.Signal(syscall.SIGCONT))
	minted := 0
	for out.Scan() {
		switch line := out.Text(); {
		case line[0] >= '0' && line[0] <= '9':
			add(line)
			if minted++; minted == 5000 {
				in.Close()
			}
			id, err := other.ID(ctx)
			must(t, err)
			add(fmt.Sprint(id))
		case line[0] == 'l' && line != "leases 2":
			t.Error(line)
		}
	}
	if minted < 5000 {
		t.Errorf("only %d IDs after the stop", minted)
	}
	must(t, other.Close(ctx))
}

func (c *cluster) steps(t *testing.T) {
	ctx := context.Background()
	var offset atomic.Int64
	generator, err := NewIDGenerator(c.client(c.Endpoints), GeneratorOptions{Owner: "steps",
		Patience: 2 * time.Second, WallMS: func() int64 { return time.Now().UnixMilli() + offset.Load() }})
	must(t, err)
	seen := map[int64]bool{}
	mint := func(count int) error {
		ids, err := generator.IDs(ctx, count)
		for _, id := range ids {
			if seen[id] {
				t.Fatalf("%d twice", id)
			}
			seen[id] = true
		}
		return err
	}
	must(t, generator.Ready(ctx))
	must(t, mint(1))
	offset.Store(-30)
	must(t, mint(1))
	for _, step := range []struct {
		ms   int64
		code string
	}{{-10_000, "clock-behind"}, {5_000, "clock-jumped"}} {
		offset.Store(step.ms)
		err := mint(1)
		if want(t, err, step.code); !as(err).Retryable {
			t.Fatal(err)
		}
	}
	offset.Store(0)
	for range 20 {
		must(t, mint(1000))
	}
	must(t, generator.Close(ctx))
}

func (c *cluster) lock(t *testing.T) {
	ctx, client, noWait := context.Background(), c.client(c.Endpoints), time.Duration(0)
	options := LockOptions{Owner: "test", TTL: 2 * time.Second, Wait: &noWait}
	first, err := client.Lock(ctx, "job", options)
	must(t, err)
	_, err = client.Lock(ctx, "job", options)
	want(t, err, "lock-held")
	// It is renewed past its ttl.
	time.Sleep(3 * time.Second)
	_, err = first.Check()
	must(t, err)
	must(t, client.Call(ctx, OpBreakLock, []any{"job"}, nil, &struct{}{}))
	select {
	case <-first.Lost():
	case <-time.After(20 * time.Second):
		t.Fatal("the loss was not noticed")
	}
	_, err = first.Check()
	wantLost(t, err, "taken-away")
	second, err := client.Lock(ctx, "job", options)
	must(t, err)
	must(t, first.Release(ctx))
	if second.Token() <= first.Token() || !second.Held() {
		t.Fatal("the second grant has no larger token")
	}
	// Without any node the holder gives up before the cluster would grant the lock again.
	for node := range c.Nodes {
		c.do("/stop/" + node)
	}
	select {
	case <-second.Lost():
	case <-time.After(20 * time.Second):
		t.Error("the loss was not noticed")
	}
	// One short attempt, and no error: the hold is over.
	must(t, second.Release(ctx))
	for node := range c.Nodes {
		c.do("/continue/" + node)
	}
	_, err = second.Check()
	wantLost(t, err, "ran-out")
	c.do("/leader")
	patient, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	options.Wait = nil
	third, err := client.Lock(patient, "job", options)
	must(t, err)
	must(t, third.Release(ctx))
	<-third.Lost()
}

func (c *cluster) passing(t *testing.T) {
	ctx := context.Background()
	must(t, c.client(c.Endpoints).CreateSequence(ctx, "passing", Fields{"mode": "strict"}))
	leader, frozen := c.do("/leader"), ""
	for node := range c.Nodes {
		if node != leader {
			frozen = node
		}
	}
	// The frozen node is the first of the list, and has never responded to this client.
	client := c.client(c.Nodes[frozen] + "," + c.Nodes[leader])
	c.do("/stop/" + frozen)
	seen := map[int64]bool{}
	for range 20 {
		ranges, err := client.Next(ctx, "passing", 1)
		if err != nil || seen[ranges[0].First] {
			t.Errorf("%v %v", ranges, err)
			break
		}
		seen[ranges[0].First] = true
	}
	c.do("/continue/" + frozen)
	noToken, err := New(c.Endpoints, WithToken(""), WithCA(c.CA), WithCertificate(c.Cert, c.Key))
	must(t, err)
	_, err = noToken.ID(ctx, "default")
	want(t, err, "unauthorized")
	noCertificate, err := New(c.Endpoints, WithCA(c.CA), WithToken(c.Token), WithCertificate("", ""))
	must(t, err)
	_, err = noCertificate.Next(ctx, "passing", 1)
	want(t, err, "unreachable")
}

func (c *cluster) ranges(t *testing.T) {
	ctx, client := context.Background(), c.client(c.Endpoints)
	must(t, client.CreateSequence(ctx, "ranges", Fields{"mode": "segment"}))
	ranges, err := client.Ranges("ranges", 1000)
	must(t, err)
	last := int64(0)
	for range 2550 {
		value, err := ranges.Next(ctx)
		must(t, err)
		if value <= last {
			t.Fatalf("%d after %d", value, last)
		}
		last = value
	}
	if closed := ranges.Close(ctx); closed.Returned == 0 || closed.Lost != 0 {
		t.Fatalf("%+v", closed)
	}
	_, err = ranges.Next(ctx)
	want(t, err, "closed")
	next, err := client.Ranges("ranges", 1000)
	must(t, err)
	value, err := next.Next(ctx)
	if err != nil || value != last+1 {
		t.Errorf("returned values are granted again: %d after %d, %v", value, last, err)
	}
	next.Close(ctx)
	missing, err := client.Ranges("absent", 10)
	must(t, err)
	_, err = missing.Next(ctx)
	want(t, err, "not-found")
	missing.Close(ctx)
}

func (c *cluster) typed(t *testing.T) {
	ctx, client := context.Background(), c.client(c.Endpoints)
	calls := 0
	work := func(context.Context, Turn) (map[string]int, error) {
		calls++
		return map[string]int{"paid": calls}, nil
	}
	for at := range 3 {
		result, replayed, err := Once(ctx, client, "pay/42 a%2F", OnceOptions{Fingerprint: "42"}, work)
		if err != nil || replayed != (at > 0) || result["paid"] != 1 {
			t.Fatal(result, replayed, err)
		}
	}
	_, _, err := Once(ctx, client, "fails", OnceOptions{}, func(context.Context, Turn) (int, error) {
		return 0, errors.New("the work fails")
	})
	if err == nil || err.Error() != "the work fails" {
		t.Fatal(err)
	}
	attempt, _, err := Once(ctx, client, "fails", OnceOptions{}, func(_ context.Context, turn Turn) (int64, error) {
		return turn.Attempt, nil
	})
	if err != nil || attempt != 2 {
		t.Fatal(attempt, err)
	}
	_, _, err = Once(ctx, client, "fails", OnceOptions{Fingerprint: "43"}, work)
	want(t, err, "fingerprint-mismatch")
	must(t, client.CreateSequence(ctx, "typed", Fields{"mode": "segment"}))
	first, err := client.NextOnce(ctx, "typed", 10, "key-1")
	must(t, err)
	second, err := client.NextOnce(ctx, "typed", 10, "key-1")
	if err != nil || !slices.Equal(first, second) {
		t.Fatal(first, second, err)
	}
	ids, err := client.IDs(ctx, "twitter", 100)
	if err != nil || len(ids) != 100 {
		t.Fatal(ids, err)
	}
	earlier, err := client.Timestamp(ctx)
	must(t, err)
	later, err := client.Timestamp(ctx)
	if err != nil || later <= earlier {
		t.Fatal(earlier, later, err)
	}
	layout, err := client.Layout(ctx, "default")
	must(t, err)
	id, err := client.ID(ctx, "default")
	must(t, err)
	parts, err := layout.Unpack(id)
	must(t, err)
	var decoded struct {
		Tick   integer
		Base62 string
	}
	must(t, client.Call(ctx, OpIdParts, []any{id}, nil, &decoded))
	if int64(decoded.Tick) != parts.Tick || decoded.Base62 != Base62.Encode(uint64(id)) {
		t.Fatalf("%+v is not %+v", parts, decoded)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := client.ID(cancelled, "default"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
