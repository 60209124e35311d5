# Never built so far: see docs/install.md. The image holds the environment and the project; data and results are mounted.
FROM python:3.11-slim-bookworm
WORKDIR /tffapps
COPY scripts/setup.sh scripts/
COPY requirements.txt ./
# The pins with their hashes, by the same set-up as outside; the project itself comes after them, so that a change of it
# does not install everything anew.
RUN bash -c ". scripts/setup.sh requirements.txt" && rm -rf ~/.cache
COPY . .
RUN bash -c ". scripts/setup.sh requirements.txt"
ENV PATH=/tffapps/.venv/bin:$PATH TFFAPPS_HOME=/work
WORKDIR /work
ENTRYPOINT ["tffapps"]
CMD ["--help"]
