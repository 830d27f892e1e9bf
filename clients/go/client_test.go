package seqd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheEnvironmentIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	for _, name := range []string{"SEQD_TOKEN", "SEQD_CACERT", "SEQD_CERT", "SEQD_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("SEQD_TOKEN_FILE", file)
	client, err := New("127.0.0.1:9")
	must(t, err)
	if client.transport.token != "secret" {
		t.Error("the token file was not read")
	}
	client, err = New("127.0.0.1:9", WithToken(""))
	must(t, err)
	if client.transport.token != "" {
		t.Error("an empty token is none")
	}
	t.Setenv("SEQD_TOKEN_FILE", file+".none")
	_, err = New("127.0.0.1:9")
	want(t, err, "invalid-argument")
	t.Setenv("SEQD_TOKEN_FILE", "")
	t.Setenv("SEQD_CACERT", file)
	_, err = New("127.0.0.1:9")
	want(t, err, "invalid-argument")
}

func TestArgumentsAreNamed(t *testing.T) {
	t.Setenv("SEQD_ENDPOINTS", "")
	for text, create := range map[string]func() (*Client, error){
		"SEQD_ENDPOINTS": func() (*Client, error) { return New("") },
		"the timeout":    func() (*Client, error) { return New("n1", WithTimeout(-1)) },
		"a token":        func() (*Client, error) { return New("n1", WithToken("secret\n")) },
	} {
		_, err := create()
		if err == nil || !strings.HasPrefix(err.Error(), text) && !strings.Contains(err.Error(), "set "+text) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestUnreachableHasAHint(t *testing.T) {
	client, err := New("http://127.0.0.1:9", WithTimeout(time.Second))
	must(t, err)
	_, err = client.ID(context.Background(), "")
	if want(t, err, "unreachable"); as(err).Hint == "" {
		t.Error(err)
	}
}
