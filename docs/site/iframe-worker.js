// The search runs in a Worker, which browsers refuse to a page that was opened as a file.
// There it runs in a hidden frame, which has the same messages.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inner = frame.contentWindow;
      this.inner.document.open();
      this.inner.document.write(`<script src="${url}"><\/script>`);
      this.inner.document.close();
      this.ready = new Promise((resolve) => {
        this.inner.addEventListener("load", resolve);
      });
      // The search answers by postMessage, as a worker does: here that goes to this object.
      this.inner.postMessage = (data) => this.receive(data);
    }
    receive(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }
    postMessage(data) {
      this.ready.then(() =>
        this.inner.dispatchEvent(new MessageEvent("message", { data }))
      );
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
