# The service on a CPU: docker build -t elmo . && docker run -p 8080:8080 -e ELMO_API_KEY=secret elmo
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# On Linux, the default torch brings CUDA along. Give torch's index of CPU builds to keep it out:
# docker build --build-arg PIP_EXTRA_INDEX_URL=ADDRESS .
ARG PIP_EXTRA_INDEX_URL
RUN python -m venv /opt/elmo && /opt/elmo/bin/pip install --no-cache-dir -c constraints.txt '.[serve]'

FROM python:3.11-slim
RUN useradd --create-home elmo
COPY --from=build /opt/elmo /opt/elmo
USER elmo
ENV PATH=/opt/elmo/bin:$PATH
EXPOSE 8080
HEALTHCHECK --start-period=30s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/health', timeout=3)"]
CMD ["elmo", "serve", "--host", "0.0.0.0", "--port", "8080"]
