package seqd_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"seqd"
)

// The examples of docs/clients/GO.md. TestExamplesArePrinted compares them.

func ids(ctx context.Context) error {
	client, err := seqd.New("127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420")
	if err != nil {
		return err
	}
	id, err := client.ID(ctx, "default")
	if err != nil {
		return err
	}
	fmt.Println(id)
	return nil
}

func secured() (*seqd.Client, error) {
	return seqd.New("n1.example,n2.example,n3.example",
		seqd.WithToken(os.Getenv("SEQD_TOKEN")),
		seqd.WithCA("ca.crt"),
		seqd.WithCertificate("orders.crt", "orders.key"),
		seqd.WithTimeout(2*time.Second))
}

func local(ctx context.Context, client *seqd.Client) error {
	generator, err := seqd.NewIDGenerator(client, seqd.GeneratorOptions{Owner: "orders-1"})
	if err != nil {
		return err
	}
	defer generator.Close(ctx)
	// A service that cannot make IDs at its start should not call itself ready.
	if err := generator.Ready(ctx); err != nil {
		return err
	}
	id, err := generator.ID(ctx)
	if err != nil {
		return err
	}
	fmt.Println(id)
	return nil
}

func values(ctx context.Context, client *seqd.Client) error {
	if err := client.CreateSequence(ctx, "order", seqd.Fields{"mode": "segment"}); err != nil {
		return err
	}
	ranges, err := client.Ranges("order", 10_000)
	if err != nil {
		return err
	}
	defer ranges.Close(ctx)
	value, err := ranges.Next(ctx)
	fmt.Println(value)
	return err
}

func locked(ctx context.Context, client *seqd.Client, report func(context.Context, int64) error) error {
	lock, err := client.Lock(ctx, "nightly-report", seqd.LockOptions{Owner: "host-1", TTL: 30 * time.Second})
	if err != nil {
		return err
	}
	defer lock.Release(ctx)
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		<-lock.Lost()
		_, err := lock.Check()
		cancel(err)
	}()
	return report(work, lock.Token())
}

type payment struct{ ID string }

func once(ctx context.Context, client *seqd.Client, pay func(context.Context, seqd.Turn) (payment, error)) error {
	paid, replayed, err := seqd.Once(ctx, client, "pay/order-42", seqd.OnceOptions{Fingerprint: "42:19.90"}, pay)
	var failed *seqd.Error
	if errors.As(err, &failed) && failed.Code == "not-kept" {
		log.Print("paid, but the result was not stored: ", failed)
	}
	fmt.Println(paid.ID, replayed)
	return err
}

func TestExamplesArePrinted(t *testing.T) {
	// The functions are compiled; a cluster runs the same calls in TestCluster.
	_, _, _, _, _, _ = ids, secured, local, values, locked, once
	page, err := os.ReadFile("../../docs/clients/GO.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) < 5 {
		t.Errorf("only %d examples", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(trimmed(string(source)), trimmed(block)) {
			t.Errorf("example_test.go does not have\n%s", block)
		}
	}
}

// trimmed returns the lines without their indentation.
func trimmed(text string) string {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}
